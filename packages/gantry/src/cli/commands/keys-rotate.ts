import type { Command } from '../io.ts'
import { showKey, signingPair } from '../made-key.ts'
import { withService } from '../session.ts'

const day = 24 * 3_600_000

/** Makes the successor of a key, which stays good for a while. */
export const execute: Command = ({ operands: [id = ''], options }, io) =>
  withService(options, io, async (client) => {
    const { days, overlap, signing } = options
    const pair = signing === true ? signingPair() : undefined
    const made = await client.keys.rotate(id, {
      ...(days === undefined ? {} : { expiresMs: days * day }),
      ...{ overlapMs: overlap, publicKey: pair?.publicKey, signal: io.signal },
    })
    return showKey(made, pair, options, io)
  })
