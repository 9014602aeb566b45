package keyring

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/godbus/dbus/v5"
)

// osLimits are those of the Secret Service, which has none: 1 MB works.
func osLimits() limits { return limits{} }

// osBackend speaks to the Secret Service (gnome-keyring, KWallet, KeePassXC).
func osBackend(service string) backend {
	return goKeyring{
		service:  service,
		reach:    func() error { return findBus(filepath.Join("/run/user", strconv.Itoa(os.Getuid()))) },
		classify: classifyDBus,
	}
}

// findBus makes sure that there is a session bus, as godbus will look for it
// (getSessionBusAddress, conn_other.go): the environment, then a file in
// userDir. Finding none, godbus runs dbus-launch, whose bus nobody ends and no
// keyring is on; so we stop before that. godbus reads the process environment
// and nothing else, so that is what we read, and set, too.
func findBus(userDir string) error {
	if a := os.Getenv("DBUS_SESSION_BUS_ADDRESS"); a != "" && a != "autolaunch:" {
		return nil
	}
	for _, name := range []string{"bus", "dbus-session"} {
		if _, err := os.Stat(filepath.Join(userDir, name)); err == nil {
			return nil
		}
	}
	// godbus takes /run/user/UID for granted; systemd and the base directory
	// specification say XDG_RUNTIME_DIR.
	if dir := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		bus := filepath.Join(dir, "bus")
		if fi, err := os.Stat(bus); err == nil && fi.Mode()&os.ModeSocket != 0 {
			return os.Setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path="+dbus.EscapeBusAddressValue(bus))
		}
	}
	return fmt.Errorf("%w: no D-Bus session bus; log in at the desktop, or start the program in `dbus-run-session`, or %s",
		ErrUnavailable, chooseFile)
}

// classifyDBus names the errors of a Secret Service. D-Bus errors are told by
// their names; go-keyring has one error of its own that has only a text.
func classifyDBus(err error) error {
	const unlock = "unlock the login keyring (log in at the desktop, or use \"Passwords and Keys\")"
	if e, ok := errors.AsType[dbus.Error](err); ok {
		switch e.Name {
		case "org.freedesktop.Secret.Error.IsLocked", "org.freedesktop.DBus.Error.AccessDenied":
			return fmt.Errorf("%w: %s: %w", ErrLocked, unlock, err)
		case "org.freedesktop.Secret.Error.NoSuchObject":
			return fmt.Errorf("%w: there is no default keyring; create one with \"Passwords and Keys\", or %s: %w",
				ErrUnavailable, chooseFile, err)
		}
	}
	// secret_service.Unlock: the prompt was denied or dismissed, or there was
	// nobody to show it.
	if strings.HasPrefix(err.Error(), "failed to unlock correct collection") {
		return fmt.Errorf("%w: %s", ErrLocked, unlock)
	}
	return fmt.Errorf("%w: no keyring service answers on the session bus; start gnome-keyring or KWallet, or %s: %w",
		ErrUnavailable, chooseFile, err)
}
