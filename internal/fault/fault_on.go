//go:build faultpoint

package fault

import (
	"os"
	"strconv"
	"strings"
	"sync"
)

// Enabled says whether this program was built for crash tests.
const Enabled = true

var (
	passed   = map[string]int{}
	passedMu sync.Mutex
)

// Point ends the process, as by SIGKILL, when the environment names this point.
func Point(id string) {
	for _, variable := range []string{"RUNNERD_FAULT_POINT", "GATEWAY_FAULT_POINT"} {
		name, nth, counted := strings.Cut(os.Getenv(variable), "@")
		if name != id {
			continue
		}
		want := 1
		if counted {
			if n, err := strconv.Atoi(nth); err == nil {
				want = n
			}
		}
		passedMu.Lock()
		passed[id]++
		now := passed[id]
		passedMu.Unlock()
		if now == want {
			kill()
		}
	}
}

// kill does not return. Where a process cannot kill itself by signal, Exit is as hard as it gets.
func kill() {
	if p, err := os.FindProcess(os.Getpid()); err == nil && p.Kill() == nil {
		select {}
	}
	os.Exit(137)
}
