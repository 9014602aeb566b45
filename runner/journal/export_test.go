package journal

// HeaderOfVersion is the beginning of a file in another format.
func HeaderOfVersion(v int) []byte { return mustEncode(kindHeader, meta{ID: "jrn_x", Version: v}) }

// RecordsOfEveryKind are some records behind a header.
func RecordsOfEveryKind() (b []byte) {
	for k := kindAccepted; k <= kindSettled; k++ {
		m := meta{Run: "r", Step: "s", Seq: 1, Cursor: int64(k)}
		if k == kindSettled {
			m = meta{Key: keyOf("r", "t").text(), Seq: 2}
		}
		b = append(b, mustEncode(k, m)...)
	}
	return b
}

func mustEncode(k kind, m meta) []byte {
	b, _, err := encode(k, m, []byte("{}"))
	if err != nil {
		panic(err)
	}
	return b
}
