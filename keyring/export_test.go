package keyring

// Backend is what a test puts in the place of a keychain.
type Backend = backend

// The keychains of other systems, by what they cannot hold.
func LinuxLimits() limits   { return limits{} }
func DarwinLimits() limits  { return limits{line: 4096} }
func WindowsLimits() limits { return limits{secret: 2560, foldCase: true} }

// NewSystemOn is NewSystem over another keychain.
func NewSystemOn(cfg SystemConfig, b Backend, l limits) *System { return newSystem(cfg, b, l) }

// Parked is how many calls run on past their deadline.
func (s *System) Parked() int { return len(s.parked) }
