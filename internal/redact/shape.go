package redact

import "sync"

// A shape is what a kind of token looks like: where it begins, and parts that follow each other. It is known for a token as
// soon as the last part has its least length; the rest of that part then belongs to it, however long it is.
type shape struct {
	name   string
	prefix string
	word   bool // no letter, digit or underscore may stand before it
	parts  []part
	secret int    // the part with which the secret begins, 0 for the prefix
	until  bool   // the last part only ends the secret
	tail   *class // goes on after the last part, that part's class if nil
	pem    bool   // the tail ends with the second group of five dashes
	raw    bool   // not looked for behind escapes
	mild   bool   // not proof enough to refuse a frame
}

// A part is a run of bytes of a class.
type part struct {
	class    *class
	min, max int
}

type class [256]bool

// newClass makes a class of bytes and of ranges a-z; a dash stands first.
func newClass(spec string) *class {
	var c class
	for i := 0; i < len(spec); i++ {
		if i+2 < len(spec) && spec[i+1] == '-' {
			for b := int(spec[i]); b <= int(spec[i+2]); b++ {
				c[b] = true
			}
			i += 2
			continue
		}
		c[spec[i]] = true
	}
	return &c
}

const unbounded = 1 << 30

// knownShapes has the tokens whose makers gave them a form that is theirs alone. The forms are those that the makers publish
// for secret scanners. Minimum lengths are a little below the real ones: a token that was cut is still a token.
func knownShapes() []shape {
	alnum, word := newClass("0-9A-Za-z"), newClass("-0-9A-Z_a-z")
	hex, upper, dot := newClass("0-9a-f"), newClass("0-9A-Z"), newClass(".")
	dotted := newClass("-.0-9A-Z_a-z")
	run := func(c *class, min int) []part { return []part{{c, min, unbounded}} }
	list := []shape{
		{name: "runner bearer of the cases", prefix: "rnr_", parts: run(alnum, 36)}, // longer than a runner's id
		{name: "Anthropic key", prefix: "sk-ant-", parts: run(word, 20)},
		{name: "OpenAI project key", prefix: "sk-proj-", parts: run(word, 20)},
		{name: "OpenAI service key", prefix: "sk-svcacct-", parts: run(word, 20)},
		{name: "OpenAI admin key", prefix: "sk-admin-", parts: run(word, 20)},
		{name: "OpenRouter key", prefix: "sk-or-v1-", parts: run(hex, 32)},
		{name: "OpenAI key and others", prefix: "sk-", word: true, parts: run(alnum, 32)},
		{name: "Google API key", prefix: "AIza", parts: []part{{word, 32, unbounded}}},
		{name: "Google access token", prefix: "ya29.", parts: run(word, 20)},
		{name: "Google client secret", prefix: "GOCSPX-", parts: run(word, 20)},
		{name: "Google refresh token", prefix: "1//0", word: true, parts: run(word, 30)},
		{name: "GitHub fine-grained token", prefix: "github_pat_", parts: run(newClass("0-9A-Z_a-z"), 30)},
		{name: "GitLab token", prefix: "glpat-", parts: run(word, 18)},
		{name: "AWS access key id", prefix: "AKIA", word: true, parts: run(upper, 16)},
		{name: "AWS temporary key id", prefix: "ASIA", word: true, parts: run(upper, 16)},
		{name: "Slack app token", prefix: "xapp-", parts: run(word, 20)},
		{name: "Stripe secret key", prefix: "sk_live_", parts: run(alnum, 20)},
		{name: "Stripe test key", prefix: "sk_test_", parts: run(alnum, 20)},
		{name: "Stripe restricted key", prefix: "rk_live_", parts: run(alnum, 20)},
		{name: "Hugging Face token", prefix: "hf_", word: true, parts: run(alnum, 30)},
		{name: "Groq key", prefix: "gsk_", word: true, parts: run(alnum, 40)},
		{name: "xAI key", prefix: "xai-", word: true, parts: run(alnum, 40)},
		{name: "Perplexity key", prefix: "pplx-", word: true, parts: run(alnum, 32)},
		{name: "Replicate token", prefix: "r8_", word: true, parts: run(alnum, 32)},
		{name: "NVIDIA key", prefix: "nvapi-", word: true, parts: run(word, 40)},
		{name: "npm token", prefix: "npm_", word: true, parts: run(alnum, 36)},
		{name: "PyPI token", prefix: "pypi-AgE", parts: run(word, 50)},
		{name: "SendGrid key", prefix: "SG.", word: true, parts: []part{{word, 16, 32}, {dot, 1, 1}, {word, 16, unbounded}}},
		{name: "DigitalOcean token", prefix: "dop_v1_", parts: run(hex, 40)},
		{name: "Linear key", prefix: "lin_api_", parts: run(alnum, 30)},
		{name: "Notion token", prefix: "ntn_", word: true, parts: run(alnum, 40)},
		{name: "Vault token", prefix: "hvs.", word: true, parts: run(word, 24)},
		{name: "Tailscale key", prefix: "tskey-", parts: run(word, 24)},
		{name: "age key", prefix: "AGE-SECRET-KEY-1", parts: run(upper, 40)},
		{name: "JWT", prefix: "eyJ", word: true, tail: dotted, parts: []part{
			{word, 8, 4096}, {dot, 1, 1}, {newClass("e"), 1, 1}, {newClass("y"), 1, 1}, {newClass("J"), 1, 1}, {word, 4, unbounded},
		}},
		{name: "password in a URL", prefix: "://", secret: 2, until: true, raw: true, mild: true, parts: []part{
			{newClass("!$&'()*+,;=.0-9A-Z_a-z~%-"), 0, 128}, {newClass(":"), 1, 1},
			{newClass("!$&'()*+,;=.0-9A-Z_a-z~%:#?^|-"), 1, 256}, {newClass("@"), 1, 1},
		}},
	}
	for _, kind := range "lsbkd" { // ours: sign-in, session, page, key, device
		list = append(list, shape{name: "gateway token", prefix: "ow" + string(kind) + "_", word: true, parts: run(alnum, 40)})
	}
	for _, kind := range "rf" { // ours: runner's bearer and refresh token
		list = append(list, shape{name: "runner token", prefix: "ow" + string(kind) + "_", word: true, parts: run(word, 50)})
	}
	for _, kind := range "pousr" {
		list = append(list, shape{name: "GitHub token", prefix: "gh" + string(kind) + "_", parts: run(alnum, 36)})
	}
	for _, kind := range "abeoprs" {
		list = append(list, shape{name: "Slack token", prefix: "xox" + string(kind) + "-", parts: run(word, 20)})
	}
	// A header alone is no key: a line break, written out or escaped, and the start of a body belong to it.
	newline, body := newClass("\r\n\\nr\t >|#*"), newClass("+/0-9A-Za-z=:,\r\n\\>-")
	rest := newClass("+/0-9A-Za-z=:, \t\r\n\\>-")
	for _, kind := range []string{"PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY", "DSA PRIVATE KEY", "OPENSSH PRIVATE KEY",
		"ENCRYPTED PRIVATE KEY", "PGP PRIVATE KEY BLOCK"} {
		list = append(list, shape{name: "private key", prefix: "-----BEGIN " + kind + "-----", tail: rest, pem: true,
			parts: []part{{newline, 1, 8}, {body, 10, unbounded}}})
	}
	return list
}

// A shapeTable is the shapes with an automaton for their prefixes.
type shapeTable struct {
	list  []shape
	auto  *automaton
	first [256]bool // what a prefix can begin with
	pairs pairs     // the first two bytes of each
}

// shapeTableOnce gives the one table there is.
var shapeTableOnce = sync.OnceValue(newShapeTable)

func newShapeTable() *shapeTable {
	t := &shapeTable{list: knownShapes()}
	prefixes := make([][]byte, len(t.list))
	for i, s := range t.list {
		prefixes[i] = []byte(s.prefix)
	}
	t.auto = newAutomaton(prefixes)
	for _, p := range prefixes {
		t.first[p[0]] = true
		t.pairs.add(p[0], p[1])
	}
	return t
}
