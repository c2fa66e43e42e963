# To use it: add `eval "$(autodiff completion bash)"` to ~/.bashrc
_autodiff() {
    local line word="${COMP_LINE:0:COMP_POINT}"
    COMPREPLY=()
    while IFS= read -r line; do COMPREPLY+=("$line"); done < <(
        autodiff completion bash -- "$COMP_CWORD" "${COMP_WORDS[@]:1}" 2>/dev/null
    )
    [[ ${COMPREPLY[0]} == *[\(=] || $word == *[\"\']* ]] && compopt -o nospace 2>/dev/null
    return 0
}
# bash 3.2, which macOS has, knows neither `compopt` nor `nosort`: there a space follows each word, in alphabetical order
complete -o default -o nosort -F _autodiff autodiff 2>/dev/null || complete -o default -F _autodiff autodiff
