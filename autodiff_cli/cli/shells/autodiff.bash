_autodiff() {
    local line word="${COMP_LINE:0:COMP_POINT}"
    COMPREPLY=()
    while IFS= read -r line; do COMPREPLY+=("$line"); done < <(
        autodiff completion bash -- "$COMP_CWORD" "${COMP_WORDS[@]:1}" 2>/dev/null
    )
    [[ ${COMPREPLY[0]} == *[\(=] || $word == *[\"\']* ]] && compopt -o nospace
    return 0
}
complete -o default -o nosort -F _autodiff autodiff
