package network

import (
	"encoding/binary"
	"encoding/hex"
	"math/bits"
	"net/netip"
	"strings"
)

// routed reports whether the kernel's table of routes (/proc/net/route) has a route to a part of subnet. The default
// route does not count.
func routed(table string, subnet netip.Prefix) bool {
	for line := range strings.Lines(table) {
		fields := strings.Fields(line)
		if len(fields) < 8 {
			continue
		}
		destination, ok := parseWord(fields[1])
		mask, maskOK := parseWord(fields[7])
		if !ok || !maskOK || mask == 0 {
			continue
		}
		var address [4]byte
		binary.BigEndian.PutUint32(address[:], destination)
		if netip.PrefixFrom(netip.AddrFrom4(address), bits.OnesCount32(mask)).Overlaps(subnet) {
			return true
		}
	}
	return false
}

// parseWord parses an address of /proc/net/route. It is hexadecimal, in the processor's byte order (little-endian).
func parseWord(text string) (uint32, bool) {
	word, err := hex.DecodeString(text)
	if err != nil || len(word) != 4 {
		return 0, false
	}
	return binary.LittleEndian.Uint32(word), true
}
