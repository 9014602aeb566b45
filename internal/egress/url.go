package egress

import (
	"errors"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/idna"
)

// ErrBlocked is what every refusal of the guard is.
var ErrBlocked = errors.New("request blocked")

// A Reason says which rule a request broke.
type Reason string

// The rules.
const (
	ReasonScheme   Reason = "scheme"
	ReasonUserInfo Reason = "userinfo"
	ReasonHost     Reason = "host_syntax"
	ReasonName     Reason = "name"
	ReasonAddress  Reason = "address"
	ReasonPort     Reason = "port"
	ReasonRedirect Reason = "redirect"
	ReasonLimit    Reason = "limit"
)

// A BlockedError is a refusal. Its text names the rule and neither the URL nor an address: it may reach the content that
// asked.
type BlockedError struct{ Reason Reason }

func (e *BlockedError) Error() string { return "request blocked: " + string(e.Reason) }

// Is makes every BlockedError an ErrBlocked.
func (e *BlockedError) Is(target error) bool { return target == ErrBlocked }

const (
	maxURL   = 8 << 10
	maxName  = 253
	maxLabel = 63
)

// inside are the ends of names that mean this machine or a private network, whatever they resolve to.
const inside = " localhost localdomain local internal intranet private corp home lan onion svc cluster.local home.arpa " +
	"invalid metadata.goog metadata.tencentyun.com metadata.cloud.ibm.com "

// ParseURL reads a URL from content. It is stricter than url.Parse: what two parsers could read differently is refused.
func ParseURL(raw string, ports ...uint16) (*url.URL, error) {
	if len(raw) > maxURL {
		return nil, &BlockedError{ReasonLimit}
	}
	scheme, rest, ok := strings.Cut(raw, ":")
	switch {
	case raw == "":
		return nil, &BlockedError{ReasonHost}
	case !ok || !strings.EqualFold(scheme, "http") && !strings.EqualFold(scheme, "https"):
		return nil, &BlockedError{ReasonScheme}
	case !strings.HasPrefix(rest, "//"):
		return nil, &BlockedError{ReasonHost}
	}
	authority := rest[2:]
	if end := strings.IndexAny(authority, "/?#"); end >= 0 {
		authority = authority[:end]
	}
	odd := func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(`\%"<>^{|}`+"`", r) }
	if strings.ContainsFunc(authority, odd) {
		return nil, &BlockedError{ReasonHost}
	}
	if strings.Contains(authority, "@") {
		return nil, &BlockedError{ReasonUserInfo}
	}
	u, err := url.Parse(raw)
	if err != nil {
		return nil, &BlockedError{ReasonHost}
	}
	return u, CheckURL(u, ports...)
}

// CheckURL judges a URL by everything but its addresses, and writes its host the one way that it is looked up, compared
// and sent: lower case, without a trailing dot. No ports means 80 and 443.
func CheckURL(u *url.URL, ports ...uint16) error {
	if len(ports) == 0 {
		ports = []uint16{80, 443}
	}
	port := uint64(443)
	switch strings.ToLower(u.Scheme) {
	case "https":
	case "http":
		port = 80
	default:
		return &BlockedError{ReasonScheme}
	}
	if u.User != nil {
		return &BlockedError{ReasonUserInfo}
	}
	host, suffix := strings.ToLower(u.Hostname()), ""
	if p := u.Port(); p != "" {
		var err error
		if port, err = strconv.ParseUint(p, 10, 16); err != nil {
			return &BlockedError{ReasonHost}
		}
		suffix = ":" + p
	}
	bracketed := strings.HasPrefix(u.Host, "[")
	if u.Opaque != "" || !bracketed && strings.Count(u.Host, ":") > 1 {
		return &BlockedError{ReasonHost}
	}
	host, dotted := strings.CutSuffix(host, ".")
	if err := checkHost(host, bracketed, dotted); err != nil {
		return err
	}
	if !slices.Contains(ports, uint16(port)) {
		return &BlockedError{ReasonPort}
	}
	if bracketed {
		host = "[" + host + "]"
	}
	u.Scheme, u.Host = strings.ToLower(u.Scheme), host+suffix
	return nil
}

func checkHost(host string, bracketed, dotted bool) error {
	ip, err := netip.ParseAddr(host)
	if bracketed || err == nil {
		if err != nil || dotted || bracketed != ip.Is6() || ip.Zone() != "" {
			return &BlockedError{ReasonHost}
		}
		return nil
	}
	if host == "" || len(host) > maxName {
		return &BlockedError{ReasonHost}
	}
	labels := strings.Split(host, ".")
	for _, l := range labels {
		if !isLabel(l) {
			return &BlockedError{ReasonHost}
		}
	}
	if looksNumeric(labels[len(labels)-1]) { // 0x7f.1, 2130706433, 127.1: an address to some resolvers
		return &BlockedError{ReasonHost}
	}
	if len(labels) == 1 {
		return &BlockedError{ReasonName}
	}
	for i := range labels {
		if strings.Contains(inside, " "+strings.Join(labels[i:], ".")+" ") {
			return &BlockedError{ReasonName}
		}
	}
	return nil
}

func isLabel(l string) bool {
	if l == "" || len(l) > maxLabel || l[0] == '-' || l[len(l)-1] == '-' {
		return false
	}
	for _, c := range []byte(l) {
		if c != '-' && c != '_' && (c < '0' || c > '9') && (c < 'a' || c > 'z') {
			return false
		}
	}
	if strings.HasPrefix(l, "xn--") {
		plain, err := idna.Registration.ToUnicode(l)
		return err == nil && strings.ContainsFunc(plain, func(r rune) bool { return r > '~' })
	}
	return true
}

// looksNumeric says whether the URL standard would read a host that ends with this label as an IPv4 address.
func looksNumeric(l string) bool {
	digits := strings.TrimPrefix(l, "0x")
	set := "0123456789"
	if digits != l {
		set += "abcdef"
	}
	return strings.Trim(digits, set) == ""
}
