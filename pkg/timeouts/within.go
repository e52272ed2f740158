package timeouts

import "context"

// Within calls request with a context that has the deadline of one request.
func Within(ctx context.Context, request func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, Request)
	defer cancel()
	return request(ctx)
}
