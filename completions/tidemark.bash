# Completion of tidemark in bash. The program prints what fits; where it prints nothing, bash
# completes files.
_tidemark() {
    local cur=${COMP_WORDS[COMP_CWORD]} list
    [ "$cur" != = ] || cur=
    if [ "$COMP_CWORD" -eq 1 ]; then
        list=$("$1" help --complete 2>/dev/null)
    else
        list=$("$1" "${COMP_WORDS[1]}" --complete "${COMP_WORDS[@]:2:COMP_CWORD-1}" 2>/dev/null)
    fi
    mapfile -t COMPREPLY < <(compgen -W "$(cut -f 1 <<<"$list")" -- "$cur")
}
complete -o default -F _tidemark tidemark
