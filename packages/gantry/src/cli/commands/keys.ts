import { generateKeyPairSync } from 'node:crypto'
import type { MadeKey } from '@gantry/client'
import type { Command, Io } from '../io.ts'
import type { OptionValues } from '../option-table.ts'
import { moreText, printJson, tableText } from '../print.ts'
import { withService } from '../session.ts'
import { safeLine } from '../terminal.ts'

const day = 24 * 3_600_000

/** Makes a key; one that signs is made here, and only its public half leaves. */
export const createKey: Command = ({ operands: [name = ''], options }, io) =>
  withService(options, io, async (client) => {
    const { principal, tenant, permission, tools, days, signing } = options
    const pair = signing === true ? signingPair() : undefined
    const made = await client.keys.create({
      name,
      principal,
      tenant,
      permissions: permission,
      roles: options['grant-role'],
      tools,
      ...(days === undefined ? {} : { expiresMs: days * day }),
      publicKey: pair?.publicKey,
      signal: io.signal,
    })
    return showKey(made, pair, options, io)
  })

/** Makes the successor of a key, which stays good for a while. */
export const rotateKey: Command = ({ operands: [id = ''], options }, io) =>
  withService(options, io, async (client) => {
    const { days, overlap, signing } = options
    const pair = signing === true ? signingPair() : undefined
    const made = await client.keys.rotate(id, {
      ...(days === undefined ? {} : { expiresMs: days * day }),
      overlapMs: overlap,
      publicKey: pair?.publicKey,
      signal: io.signal,
    })
    return showKey(made, pair, options, io)
  })

/** Lists keys, newest first. */
export const listKeys: Command = ({ options }, io) =>
  withService(options, io, async (client) => {
    const { limit, cursor, tenant, json } = options
    const page = await client.keys.list({ limit, cursor, tenant, signal: io.signal })
    if (json === true) await printJson(page, io)
    else if (page.items.length === 0) await io.out('No keys.\n')
    else {
      const rows = page.items.map((key) => [
        key.id,
        key.state,
        key.kind,
        key.name,
        key.tenant,
        key.principal,
        key.expiresAt,
        key.lastUsedAt ?? 'never',
        key.tools?.join(',') ?? 'all tools',
        key.roles.join(',') || '-',
        key.permissions.join(',') || '-',
      ])
      const head = ['key', 'state', 'kind', 'name', 'tenant', 'principal', 'expires', 'used', 'tools', 'roles', 'may']
      await io.out(tableText(head, rows, io) + moreText(page.cursor))
    }
    return 0
  })

/** Revokes a key at once, and with --cancel-calls cancels the calls of its principal that no worker has claimed. */
export const revokeKey: Command = ({ operands: [id = ''], options }, io) =>
  withService(options, io, async (client) => {
    const key = await client.keys.revoke(id, { cancelCalls: options['cancel-calls'] === true, signal: io.signal })
    if (options.json === true) await printJson(key, io)
    else await io.out(`Revoked ${safeLine(key.id)} (${safeLine(key.name)}).\n`)
    return 0
  })

/** Both halves of an Ed25519 pair, 32 bytes each in base64url. */
export interface SigningPair {
  readonly publicKey: string
  readonly privateKey: string
}

export function signingPair(): SigningPair {
  const { x = '', d = '' } = generateKeyPairSync('ed25519').privateKey.export({ format: 'jwk' })
  return { publicKey: x, privateKey: d }
}

/** Shows a new key this once: its text alone on stdout, so that it can go into a file, and what to know of it on stderr. */
export async function showKey(
  { key, text }: MadeKey,
  pair: SigningPair | undefined,
  options: OptionValues,
  io: Io,
): Promise<number> {
  const secret = text ?? `gs_${key.id}_${pair?.privateKey}`
  if (options.json === true) {
    await printJson({ key, text: secret }, io)
    return 0
  }
  const { id, name, tenant, principal, expiresAt, tools } = key
  io.err(`Made the key ${safeLine(id)} (${safeLine(name)}) for ${safeLine(principal)} of ${safeLine(tenant)}.\n`)
  io.err(`It expires ${safeLine(expiresAt)}. It is shown only once; store it where only its user can read it.\n`)
  io.err(
    tools === undefined
      ? "WARNING: it may call every tool that the policy allows, because no --tools limits it. To limit it, revoke it and name its tools: --tools 'files:*'.\n"
      : `It may call these tools, as far as the policy allows: ${safeLine(tools.join(', '))}.\n`,
  )
  await io.out(`${safeLine(secret)}\n`)
  return 0
}
