package journal

import (
	"os"

	"golang.org/x/sys/unix"
)

// syncData leaves out the file times, whose commit costs more than the data.
func syncData(f *os.File) error {
	for {
		if err := unix.Fdatasync(int(f.Fd())); err != unix.EINTR {
			return err
		}
	}
}
