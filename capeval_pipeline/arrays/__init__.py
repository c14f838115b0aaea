"""The one door between tables and methods: labelled frames in, index arrays out, and back. A module a stage."""
