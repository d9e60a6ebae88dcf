/** A module for `--import`: shifts the wall clock of this process and its threads. */
const RealDate = Date
const shift = Number(process.env.FAULT_SKEW_MS ?? 0)

class SkewedDate extends RealDate {
  constructor(...given: unknown[]) {
    if (given.length === 0) super(RealDate.now() + shift)
    else super(...(given as [number]))
  }
  static override now(): number {
    return RealDate.now() + shift
  }
}

globalThis.Date = SkewedDate as DateConstructor
