"""Other systems, pretended on this one."""
