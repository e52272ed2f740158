// Package proof tests the keeper of the key that signs PodChaperons, with the rights and the Secret of the chart.
package proof
