"""Everything in balar that talks to the outside.

Problem files, the terminal and the command line live here. This package uses
`balar_core`; `balar_core` knows nothing of this package.
"""
