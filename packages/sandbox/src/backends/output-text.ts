import type { SandboxFile } from '@gantry/contract'
import type { Captured } from '@gantry/core/internal/runtimes/runtime'

/**
 * What a program wrote, as text: bytes that are not UTF-8 become U+FFFD, everything else stays, zero bytes too. Where the
 * stream was cut off in the middle of a character, that character goes.
 */
export function outputText({ bytes, truncated }: Pick<Captured, 'bytes' | 'truncated'>): string {
  return new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes, { stream: truncated })
}

/** A file that came out of a sandbox: text when every byte of it is, else base64. */
export function outputFile(bytes: Uint8Array): SandboxFile {
  try {
    return new TextDecoder('utf-8', { ignoreBOM: true, fatal: true }).decode(bytes)
  } catch {
    return { base64: Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64') }
  }
}
