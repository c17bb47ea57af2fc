"""Operations on the tables; a module a table. The only importers of ``sql``."""
