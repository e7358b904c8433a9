package localstack

import (
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"
)

// guardScript waits for its standard input. A line means that the child has ended. The
// end of the input means that the parent was killed: the script then sends the signal $2
// to the child, waits for $3 tenths of a second, and kills the process group $1.
const guardScript = `
if read -r line; then exit; fi
kill -s "$2" "$1" 2>/dev/null
while [ "$3" -gt 0 ] && kill -s 0 "$1" 2>/dev/null; do
	set -- "$1" "$2" $(($3 - 1))
	sleep 0.1
done
kill -s KILL -- "-$1" 2>/dev/null
`

// guard is a process that ends a child whose parent was killed.
type guard struct {
	cmd  *exec.Cmd
	pipe *os.File
}

func startGuard(pid int, stop syscall.Signal, grace time.Duration) (*guard, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer read.Close()

	cmd := exec.Command("/bin/sh", "-c", guardScript, "reelay-guard",
		strconv.Itoa(pid), strconv.Itoa(int(stop)), strconv.Itoa(int(grace/(100*time.Millisecond))))
	cmd.Stdin = read
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		write.Close()
		return nil, err
	}
	return &guard{cmd: cmd, pipe: write}, nil
}

// dismiss ends the guard after its child has ended.
func (g *guard) dismiss() {
	// The guard may have been killed; then the write fails and nothing is left to do.
	_, _ = g.pipe.WriteString("gone\n")
	g.pipe.Close()
	_ = g.cmd.Wait()
}
