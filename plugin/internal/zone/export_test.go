package zone

import (
	"io"

	"github.com/clusterdns/clusterdns/server/wire"
)

// ParseWithin is Parse with limits of its own, so that reaching them does not take as long as it may.
func ParseWithin(records, files int, bytes int64, from io.Reader, origin wire.Zone, name string) (*Zone, error) {
	return parse(from, origin, name, bounds{records, files, bytes})
}
