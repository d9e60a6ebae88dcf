import { generateKeyPairSync } from 'node:crypto'
import type { MadeKey } from '@gantry/client'
import type { Io } from './io.ts'
import type { OptionValues } from './option-table.ts'
import { printJson } from './print.ts'
import { safeLine } from './terminal.ts'

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
  const { id, name, tenant, principal, expiresAt } = key
  io.err(`Made the key ${safeLine(id)} (${safeLine(name)}) for ${safeLine(principal)} of ${safeLine(tenant)}.\n`)
  io.err(`It ends ${safeLine(expiresAt)}. It is shown this once; keep it where only its user can read it.\n`)
  await io.out(`${safeLine(secret)}\n`)
  return 0
}
