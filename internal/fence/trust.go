package fence

// The values of contentTrust on events and payload members (wire section 13).
const (
	Trusted   = "trusted"
	Untrusted = "untrusted"
)

// Meet is the trust of a value that was made from inputs of these trusts: trusted only if all are. An input without a
// marking, or with one that is not known, counts as untrusted, and so does a value that was made from nothing (F12).
func Meet(inputs ...string) string {
	for _, trust := range inputs {
		if trust != Trusted {
			return Untrusted
		}
	}
	if len(inputs) == 0 {
		return Untrusted
	}
	return Trusted
}
