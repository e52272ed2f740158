package capacity

import "slices"

// bins is the number of places at which split can divide a cluster.
const bins = 64

// cluster is a set of vectors that one vector, the least of them, replaces.
type cluster struct {
	vectors []vector
	nodes   int32
	least   []int64
	column  int     // the resource with the largest loss
	loss    float64 // of that resource, as a multiple of the most that any node has
}

func newCluster(vectors []vector, most []int64) *cluster {
	c := &cluster{vectors: vectors, least: slices.Clone(vectors[0].free)}
	for _, v := range vectors {
		c.nodes += v.nodes
		for i, amount := range v.free {
			c.least[i] = min(c.least[i], amount)
		}
	}
	losses := make([]float64, len(c.least))
	for _, v := range vectors {
		for i, amount := range v.free {
			losses[i] += float64(amount-c.least[i]) * float64(v.nodes)
		}
	}
	for i, loss := range losses {
		if loss > 0 && loss/float64(most[i]) > c.loss {
			c.column, c.loss = i, loss/float64(most[i])
		}
	}
	return c
}

// split divides a cluster with a loss in two with less loss. It changes the order of the vectors.
func (c *cluster) split() (left, right []vector) {
	low, high := c.least[c.column], c.least[c.column]
	for _, v := range c.vectors {
		high = max(high, v.free[c.column])
	}
	width := float64(high-low) / (bins - 1)
	bin := func(v vector) int { return int(float64(v.free[c.column]-low) / width) }
	var nodes [bins]float64
	var least [bins]int64
	for _, v := range c.vectors {
		b, amount := bin(v), v.free[c.column]
		if nodes[b] == 0 || amount < least[b] {
			least[b] = amount
		}
		nodes[b] += float64(v.nodes)
	}
	best, saved, above := 0, 0.0, 0.0
	for b := bins - 1; b > 0; b-- {
		if nodes[b] == 0 {
			continue
		}
		above += nodes[b]
		if s := above * float64(least[b]-low); s > saved {
			best, saved = b, s
		}
	}
	end := 0
	for i, v := range c.vectors {
		if bin(v) < best {
			c.vectors[i], c.vectors[end] = c.vectors[end], v
			end++
		}
	}
	return c.vectors[:end], c.vectors[end:]
}
