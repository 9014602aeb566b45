package wire

import "errors"

// A PairingRequest starts the pairing of a new runner by device code. The facts are public ones and shown to the person who
// approves.
type PairingRequest struct {
	Name     string `json:"name"`
	Platform string `json:"platform"`
	Version  string `json:"version"`
}

// Validate names the members that are missing or too long.
func (p PairingRequest) Validate() error {
	return errors.Join(
		checkName("name", p.Name, MaxNameLength),
		checkName("platform", p.Platform, MaxNameLength),
		checkName("version", p.Version, MaxNameLength),
	)
}

// A PairingReply has the member names of RFC 8628 section 3.2.
type PairingReply struct {
	DeviceCode              string `json:"device_code"`
	UserCode                string `json:"user_code"`
	VerificationURI         string `json:"verification_uri"`
	VerificationURIComplete string `json:"verification_uri_complete"`
	ExpiresIn               int64  `json:"expires_in"` // seconds
	Interval                int64  `json:"interval"`   // seconds
}

// A TokenRequest trades a device code or a refresh token for a bearer. Exactly one member is set.
type TokenRequest struct {
	DeviceCode   string `json:"device_code,omitempty"`
	RefreshToken string `json:"refresh_token,omitempty"`
}

// Validate demands exactly one of the two members.
func (t TokenRequest) Validate() error {
	if (t.DeviceCode == "") == (t.RefreshToken == "") {
		return &FieldError{"device_code", "exactly one of device_code and refresh_token must be given"}
	}
	return nil
}

// A TokenReply carries the runner's credentials. It is the one body in which the bearer travels.
type TokenReply struct {
	AccessToken  string `json:"access_token"`
	TokenType    string `json:"token_type"` // "Bearer"
	ExpiresIn    int64  `json:"expires_in"` // seconds
	RefreshToken string `json:"refresh_token"`
	RunnerID     string `json:"runner_id"`
	Subject      string `json:"subject"`
}

// The error codes of POST tokens, from RFC 8628 section 3.5 and RFC 6749 section 5.2; all come with status 400.
const (
	TokenPending  = "authorization_pending"
	TokenSlowDown = "slow_down"
	TokenExpired  = "expired_token"
	TokenDenied   = "access_denied"
	TokenInvalid  = "invalid_grant" // unknown, reused or revoked
)
