package admin

import (
	"errors"
	"time"

	"runnerd/gateway/store"
)

// What operations take and give. An empty Tenant is the default one.
type (
	// Nothing is asked or answered.
	Nothing struct{}
	// A TenantRef names a tenant.
	TenantRef struct {
		Tenant string `json:"tenant,omitempty"`
	}
	// A UserRef names a person.
	UserRef struct {
		Tenant string `json:"tenant,omitempty"`
		User   string `json:"user"`
	}
	// An IDRef names a key or a runner.
	IDRef struct {
		Tenant string `json:"tenant,omitempty"`
		ID     string `json:"id"`
	}
	// A SignInLink signs a person in once.
	SignInLink struct {
		User    string `json:"user"`
		Subject string `json:"subject"`
		Link    string `json:"signInLink"`
	}
	// A User is a line of a list.
	User struct {
		User    string    `json:"user"`
		Subject string    `json:"subject"`
		Created time.Time `json:"created"`
	}
	// A UserList is in order of names.
	UserList struct {
		Users []User `json:"users"`
	}
	// NewKey asks for a key. No scopes: all; no life: until revoked.
	NewKey struct {
		Tenant      string   `json:"tenant,omitempty"`
		User        string   `json:"user"`
		Name        string   `json:"name,omitempty"`
		Scopes      []string `json:"scopes,omitempty"`
		LifeSeconds int64    `json:"lifeSeconds,omitempty"`
	}
	// A CreatedKey holds the key, this once.
	CreatedKey struct {
		Key     string     `json:"key"`
		ID      string     `json:"id"`
		Scopes  []string   `json:"scopes"`
		Expires *time.Time `json:"expires,omitempty"`
	}
	// A Key is a line of a list.
	Key struct {
		ID      string     `json:"id"`
		Subject string     `json:"subject"`
		Name    string     `json:"name,omitempty"`
		Scopes  []string   `json:"scopes"`
		Created time.Time  `json:"created"`
		Expires *time.Time `json:"expires,omitempty"`
		Revoked *time.Time `json:"revoked,omitempty"`
	}
	// A KeyList is in order of creation.
	KeyList struct {
		Keys []Key `json:"keys"`
	}
	// A Runner is a line of a list.
	Runner struct {
		ID       string     `json:"id"`
		Subject  string     `json:"subject"`
		Name     string     `json:"name"`
		Platform string     `json:"platform"`
		Version  string     `json:"version"`
		Presence string     `json:"presence"`
		Created  time.Time  `json:"created"`
		LastSeen *time.Time `json:"lastSeen,omitempty"`
	}
	// A RunnerList is in the store's order.
	RunnerList struct {
		Runners []Runner `json:"runners"`
	}
	// An Approval pairs the runner that shows Code with a person.
	Approval struct {
		Tenant string `json:"tenant,omitempty"`
		User   string `json:"user"`
		Code   string `json:"code"`
	}
	// Approved says what was paired.
	Approved struct {
		RunnerID string `json:"runnerId"`
		Subject  string `json:"subject"`
		Name     string `json:"name"`
	}
	// NewWorkflow carries a definition, as it stands in its file.
	NewWorkflow struct {
		Tenant   string `json:"tenant,omitempty"`
		Document []byte `json:"document,omitempty"`
	}
	// A Workflow is a line of a list.
	Workflow struct {
		ID      string    `json:"id"`
		Name    string    `json:"name"`
		Version string    `json:"version"`
		Updated time.Time `json:"updated"`
	}
	// A WorkflowList is in order of ids.
	WorkflowList struct {
		Workflows []Workflow `json:"workflows"`
	}
	// A Status says what a gateway is and holds.
	Status struct {
		Version string `json:"version"`
		URL     string `json:"url,omitempty"`
		Serving bool   `json:"serving"`
		Tenants int    `json:"tenants"`
		Users   int    `json:"users"`
		Runners int    `json:"runners"`
		Online  int    `json:"online"`
	}
)

// The codes of an Error.
const (
	CodeInvalid  = "validation_error"
	CodeNotFound = "not_found"
	CodeConflict = "conflict"
	CodeLimited  = "rate_limited"
	CodeInternal = "internal_error"
)

// An Error is what an operation says to the administrator, the same over the socket and without it.
type Error struct {
	Code    string `json:"error"`
	Message string `json:"message"`
}

func (e *Error) Error() string { return e.Message }

// explain gives a missing row a sentence.
func explain(err error, missing string) error {
	if errors.Is(err, store.ErrNotFound) {
		return &Error{CodeNotFound, missing}
	}
	return err
}

func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}
