package redact

import "sync"

// border is a set without secrets, made when it is first needed.
var border = sync.OnceValue(func() *compiled { return compile(nil) })

// HasTokenShape reports whether a text, such as the bytes of a frame, holds what has the form of somebody's token. The gateway
// refuses such a frame: a runner masks them, so whoever sent it did not (design, section 7). What only may be a secret, such
// as a password in a URL, is masked by the runner and not refused here.
func HasTokenShape(text []byte) bool {
	c := border()
	scan := c.pool.Get().(*scanner)
	defer c.pool.Put(scan)
	scan.border = true
	scan.readAll(text)
	found := scan.token
	scan.reset()
	scan.border, scan.token = false, false
	return found
}

// maskShapes masks what has the form of a token, in a text of which no secret is known.
func maskShapes(text string) string {
	c := border()
	scan := c.pool.Get().(*scanner)
	defer c.pool.Put(scan)
	return string(scan.whole([]byte(text)))
}
