import type { Answer } from './answer.ts'
import type { Visit } from './request-scope.ts'
import type { Arrival, House } from './serve.ts'

/**
 * What answers every method of one path by itself. Host and Origin are checked before, and what it throws is answered as
 * on every route; who asks, and how long a body may be, it finds out with what the house has.
 */
export interface Mount {
  readonly path: string
  handle(arrival: Arrival, visit: Visit, house: House): Promise<Answer>
}
