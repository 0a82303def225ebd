"""09.mesh: whole builds, right ones in several styles and wrong ones, which the tables of all steps take."""
