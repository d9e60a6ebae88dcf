import { defaultPayloadConverter } from '@temporalio/common'
import { createCodec, mostPayloadBytes, PayloadTooLarge } from '../connection/codec.ts'

/** Returns the size of a value that Temporal would not take as a payload; undefined for one that fits. */
export type PayloadFit = (value: unknown) => Promise<number | undefined>

/** Sealing adds less than this. */
const overheadBytes = 4_096

/** Compresses a value only when it could be too large. */
export function createPayloadFit(most: number = mostPayloadBytes): PayloadFit {
  const codec = createCodec([])
  return async (value) => {
    const payload = defaultPayloadConverter.toPayload(value)
    if (payload === undefined || (payload.data?.length ?? 0) < most - overheadBytes) return undefined
    try {
      const [encoded] = await codec.encode([payload])
      const bytes = encoded?.data?.length ?? 0
      return bytes > most - overheadBytes ? bytes : undefined
    } catch (error) {
      if (error instanceof PayloadTooLarge) return error.bytes
      throw error
    }
  }
}
