# Included at the end of Makefiles, so that other flags rebuild what was built with these.
#
# Before: flags_file is a file that all objects depend on, and flags what they depend on beside
# sources.  The file is written only where they differ from what is in it.

quoted_flags = '$(subst ','\'',$(strip $(flags)))'

$(flags_file): always
	@mkdir -p $(@D)
	@printf '%s\n' $(quoted_flags) | cmp -s - $@ || printf '%s\n' $(quoted_flags) >$@

.PHONY: always

# Recipes and scripts use cd, which would print where it goes.
unexport CDPATH
