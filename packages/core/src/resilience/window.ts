/** What one slice of time held: when it began, calls that counted, and how many of them were failures. */
export type Slice = readonly [start: number, calls: number, failures: number]

/** Slices of a window; a slice is forgotten whole. */
export const sliceCount = 10

/** Counts calls and failures of the last while. Time that goes backwards is counted in the newest slice. */
export class RollingWindow {
  #calls = 0
  #failures = 0
  #newest = Number.NEGATIVE_INFINITY
  readonly #sliceMs: number
  readonly #callsIn = new Float64Array(sliceCount)
  readonly #failuresIn = new Float64Array(sliceCount)

  constructor(windowMs: number) {
    this.#sliceMs = windowMs / sliceCount
  }

  /** Calls in the window, as of the last `add` or `pass`. */
  get calls(): number {
    return this.#calls
  }

  get failures(): number {
    return this.#failures
  }

  /** Counts calls that ended at a time. */
  add(time: number, calls: number, failures: number): void {
    this.pass(time)
    const place = placeOf(this.#newest)
    this.#callsIn[place] = (this.#callsIn[place] ?? 0) + calls
    this.#failuresIn[place] = (this.#failuresIn[place] ?? 0) + failures
    this.#calls += calls
    this.#failures += failures
  }

  /** Forgets what is too old at a time. */
  pass(time: number): void {
    const slice = Math.floor(time / this.#sliceMs)
    if (slice <= this.#newest) return
    const first = Math.max(this.#newest + 1, slice - sliceCount + 1)
    for (let gone = first; gone <= slice; gone++) this.#forget(placeOf(gone))
    this.#newest = slice
  }

  clear(): void {
    for (let place = 0; place < sliceCount; place++) this.#forget(place)
  }

  /** The slices that hold anything, oldest first. */
  slices(time: number): Slice[] {
    this.pass(time)
    const found: Slice[] = []
    for (let slice = this.#newest - sliceCount + 1; slice <= this.#newest; slice++) {
      const place = placeOf(slice)
      const calls = this.#callsIn[place] ?? 0
      if (calls > 0) found.push([slice * this.#sliceMs, calls, this.#failuresIn[place] ?? 0])
    }
    return found
  }

  /** Takes over slices, oldest first; those of the future count as now. */
  load(slices: readonly Slice[], time: number): void {
    this.clear()
    this.#newest = Number.NEGATIVE_INFINITY
    // The middle of a slice, so that rounding cannot move it into the one before.
    for (const [start, calls, failures] of slices) this.add(Math.min(start + this.#sliceMs / 2, time), calls, failures)
    this.pass(time)
  }

  #forget(place: number): void {
    this.#calls -= this.#callsIn[place] ?? 0
    this.#failures -= this.#failuresIn[place] ?? 0
    this.#callsIn[place] = 0
    this.#failuresIn[place] = 0
  }
}

function placeOf(slice: number): number {
  return ((slice % sliceCount) + sliceCount) % sliceCount
}
