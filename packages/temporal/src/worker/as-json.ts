import type { JsonObject } from '@gantry/contract'

/** A plain copy, without members that are undefined: what a payload carries. */
export function asJson(value: object): JsonObject {
  return JSON.parse(JSON.stringify(value))
}
