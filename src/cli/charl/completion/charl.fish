# Completion of charl, charl-train and charl-bench for fish. The programs themselves know what may follow.

function __charl_complete
    set -l words (commandline --current-process --tokenize --cut-at-cursor) (commandline --current-token --cut-at-cursor)
    set -l last $words[-1]
    for line in ($words[1] --complete $words[2..-1] 2>/dev/null)
        switch $line
            case :nospace
            case :files
                set -l value (string replace --regex '^.*=' '' -- $last)
                set -l prefix (string match --regex '^.*=' -- $last)
                for path in (__fish_complete_path $value)
                    string join '' -- $prefix $path
                end
            case :dirs
                set -l value (string replace --regex '^.*=' '' -- $last)
                set -l prefix (string match --regex '^.*=' -- $last)
                for path in (__fish_complete_directories $value)
                    string join '' -- $prefix $path
                end
            case '*'
                echo $line
        end
    end
end

for program in charl charl-train charl-bench
    complete --command $program --no-files --arguments '(__charl_complete)'
end
