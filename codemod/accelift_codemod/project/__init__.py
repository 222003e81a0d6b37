"""A script and the project files that it imports, as one program; and what is planned for it, file by file."""
