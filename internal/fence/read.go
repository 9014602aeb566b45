package fence

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// ErrNotABlock says that a text is not exactly one block as this package builds them.
var ErrNotABlock = errors.New("not a fenced block")

// Content is what a block holds.
type Content struct {
	Source Source
	Mark   string
	Text   string
	Lossy  bool
	Cut    int
}

// Read gives back the content of a block. It takes the one spelling that Block writes and nothing else, so that what it
// accepts is fenced for certain.
func Read(block string) (Content, error) {
	c, err := parse(block)
	switch {
	case err != nil:
	case !utf8.ValidString(block):
		err = errors.New("not valid UTF-8")
	case strings.Contains(c.Text+c.Source.Origin+c.Source.Tool+c.Source.Type, c.Mark):
		err = errors.New("the mark occurs in the content")
	case c.Lossy && !strings.ContainsRune(c.Text, utf8.RuneError):
		err = errors.New("lossy without a loss")
	case build(c.Mark, c.Source, c.Text, c.Lossy, c.Cut) != block:
		err = errors.New("another spelling of the same content")
	}
	if err != nil {
		return Content{}, fmt.Errorf("%w: %w", ErrNotABlock, err)
	}
	return c, nil
}

func parse(block string) (Content, error) {
	head, body, ok := strings.Cut(block, "\n")
	if !ok {
		return Content{}, errors.New("no line break after the opening tag")
	}
	c, err := parseHeader(head)
	if err != nil {
		return Content{}, err
	}
	body, ok = strings.CutSuffix(body, "\n"+closeTag)
	if !ok {
		return Content{}, errors.New("no closing tag at the end")
	}
	var text strings.Builder
	for i, line := range strings.Split(body, "\n") {
		encoded, ok := strings.CutPrefix(line, c.Mark+bar)
		if !ok {
			return Content{}, fmt.Errorf("line %d without the mark", i+1)
		}
		if i > 0 {
			text.WriteByte('\n')
		}
		if err := decode(&text, encoded); err != nil {
			return Content{}, err
		}
	}
	c.Text = text.String()
	return c, nil
}

func parseHeader(head string) (Content, error) {
	rest, ok := strings.CutPrefix(head, openTag)
	if !ok {
		return Content{}, errors.New("no opening tag at the start")
	}
	var c Content
	for {
		name, after, ok := strings.Cut(rest, `="`)
		encoded, tail, ok2 := strings.Cut(after, `"`)
		if !ok || !ok2 {
			return Content{}, errors.New("attribute without a value")
		}
		var value strings.Builder
		if err := decode(&value, encoded); err != nil {
			return Content{}, err
		}
		v := value.String()
		switch name {
		case "source":
			c.Source.Origin = v
		case "tool":
			c.Source.Tool = v
		case "type":
			c.Source.Type = v
		case "lossy":
			c.Lossy = v == "true"
		case "cut":
			c.Cut, _ = strconv.Atoi(v) // a bad number is another spelling
		case "id":
			if len(v) != markLength || strings.Trim(v, alphabet) != "" || tail != ">" {
				return Content{}, errors.New("bad id")
			}
			c.Mark = v
			return c, nil
		default:
			return Content{}, fmt.Errorf("unknown attribute %q", name)
		}
		rest = strings.TrimPrefix(tail, " ")
	}
}

// decode undoes encode and encodeValue.
func decode(b *strings.Builder, encoded string) error {
	for {
		plain, rest, ok := strings.Cut(encoded, "&")
		b.WriteString(plain)
		if !ok {
			return nil
		}
		name, after, ok := strings.Cut(rest, ";")
		if !ok {
			return errors.New("escape without an end")
		}
		r, err := meaning(name)
		if err != nil {
			return err
		}
		b.WriteRune(r)
		encoded = after
	}
}

// meaning is the character that an escape stands for.
func meaning(name string) (rune, error) {
	switch name {
	case "lt":
		return '<', nil
	case "gt":
		return '>', nil
	case "amp":
		return '&', nil
	case `\`, "%":
		return rune(name[0]), nil
	}
	if hex, ok := strings.CutPrefix(name, "U+"); ok && len(hex) <= 6 {
		if n, err := strconv.ParseUint(hex, 16, 32); err == nil && utf8.ValidRune(rune(n)) {
			return rune(n), nil
		}
	}
	return 0, fmt.Errorf("unknown escape %q", name)
}
