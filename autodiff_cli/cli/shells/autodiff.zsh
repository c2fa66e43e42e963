#compdef autodiff
# To use it: add `eval "$(autodiff completion zsh)"` to ~/.zshrc, after compinit
_autodiff() {
    local -a found
    found=("${(@f)$(autodiff completion zsh -- $((CURRENT - 1)) "${(@Q)words[2,-1]}" 2>/dev/null)}")
    if (( ${#found} )) && [[ -n ${found[1]} ]]; then
        compadd -Q -U -S '' -- "${found[@]}"
    else
        _files
    fi
}
compdef _autodiff autodiff
