package postgres

import (
	"github.com/jackc/pgx/v5"

	"runnerd/gateway/store"
)

const selectPairing = "SELECT device, user_code, name, platform, version, state, subject, runner, issued, expires FROM pairing "

func scanPairing(rows pgx.Rows, p *store.Pairing) error {
	return rows.Scan(asHash{&p.Device}, into(&p.UserCode), into(&p.Name), into(&p.Platform), into(&p.Version), into(&p.State),
		into(&p.Subject), into(&p.Runner), asTime{&p.Issued}, asTime{&p.Expires})
}

func ofPairing(device store.Hash) key { return ofHash("pairing", device) }

func (r *reader) PairingByDevice(code store.Hash) (store.Pairing, error) {
	return one(r, ofPairing(code), scanPairing, selectPairing+"WHERE device = $1", code[:])
}

func (r *reader) PairingByUserCode(code string) (store.Pairing, error) {
	return one(r, key{}, scanPairing, selectPairing+"WHERE user_code = $1", text(code))
}

// PairingByUserCode looks again once the device is known.
func (t *tx) PairingByUserCode(code string) (store.Pairing, error) {
	p, err := t.reader.PairingByUserCode(code)
	if err != nil {
		return p, err
	}
	return t.PairingByDevice(p.Device)
}

func (t *tx) CreatePairing(p store.Pairing) error {
	return t.create(ofPairing(p.Device), `INSERT INTO pairing (device, user_code, name, platform, version, state, subject, runner, issued, expires)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
		p.Device[:], text(p.UserCode), text(p.Name), text(p.Platform), text(p.Version), text(p.State), text(p.Subject), text(p.Runner),
		micros(p.Issued), micros(p.Expires))
}

func (t *tx) MovePairing(expect store.PairingState, next store.Pairing) error {
	return t.change(ofPairing(next.Device), store.ErrConflict, `UPDATE pairing SET state = $1, subject = $2, runner = $3, issued = $4, expires = $5
		WHERE device = $6 AND state = $7`,
		text(next.State), text(next.Subject), text(next.Runner), micros(next.Issued), micros(next.Expires), next.Device[:], text(expect))
}
