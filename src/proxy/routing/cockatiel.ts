/** The circuit breaker of cockatiel. The build replaces this module with a bundle of what is used of the package (`src/bundle.mjs`). */
export {
  BrokenCircuitError,
  CircuitState,
  ConsecutiveBreaker,
  circuitBreaker,
  ExponentialBackoff,
  handleWhen,
} from 'cockatiel';
