"""Tables that know no methods: their contracts, the lake that keeps them, the SQL that derives them, the warehouse."""
