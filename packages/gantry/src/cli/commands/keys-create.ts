import type { Command } from '../io.ts'
import { showKey, signingPair } from '../made-key.ts'
import { withService } from '../session.ts'

const day = 24 * 3_600_000

/** Makes a key; one that signs is made here, and only its public half leaves. */
export const execute: Command = ({ operands: [name = ''], options }, io) =>
  withService(options, io, async (client) => {
    const { principal, tenant, permission, tools, days, signing } = options
    const pair = signing === true ? signingPair() : undefined
    const made = await client.keys.create({
      ...{ name, principal, tenant, permissions: permission, roles: options['grant-role'], tools },
      ...(days === undefined ? {} : { expiresMs: days * day }),
      ...{ publicKey: pair?.publicKey, signal: io.signal },
    })
    return showKey(made, pair, options, io)
  })
