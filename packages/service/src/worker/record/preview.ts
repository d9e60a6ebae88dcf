import type { ArtifactRef, JsonObject } from '@gantry/contract'

/** The beginning and the end of a text that is elsewhere. */
export interface Preview {
  readonly head: string
  readonly tail: string
}

/** Cuts a text down to so many characters, two thirds of them from its beginning, and no character in half. */
export function previewOf(text: string, characters: number): Preview {
  const head = Math.min(text.length, Math.ceil((characters * 2) / 3))
  const tail = Math.max(head, text.length - (characters - Math.ceil((characters * 2) / 3)))
  return { head: text.slice(0, boundary(text, head)), tail: text.slice(boundary(text, tail)) }
}

/** The same place, or the one before it when that is inside a pair of surrogates. */
function boundary(text: string, at: number): number {
  const inPair = isHigh(text.charCodeAt(at - 1)) && isLow(text.charCodeAt(at))
  return inPair ? at - 1 : at
}

function isHigh(unit: number): boolean {
  return unit >= 0xd800 && unit < 0xdc00
}

function isLow(unit: number): boolean {
  return unit >= 0xdc00 && unit < 0xe000
}

/** What is known of something that was taken out of a result. */
export interface TakenOut {
  /** Where it is now; undefined when it could not be kept. */
  readonly artifact: ArtifactRef | undefined
  readonly bytes: number
  readonly mimeType: string
  /** Absent for what is not text. */
  readonly preview?: Preview
}

/** What stands in the place of a value. */
export function marker({ artifact, bytes, mimeType, preview }: TakenOut): JsonObject {
  const shown = preview === undefined ? {} : { preview: { ...preview } }
  if (artifact === undefined) return { cut: { bytes, mimeType, ...shown } }
  return { spilled: { artifact: artifact.id, bytes, mimeType, digest: artifact.digest, ...shown } }
}

/** What stands in the place of a text, where only a text can. */
export function markedText({ artifact, bytes, preview }: TakenOut): string {
  const where = artifact === undefined ? 'the rest is lost' : `all of it is in ${artifact.id}, for artifacts:read`
  return `${preview?.head ?? ''}\n[… ${bytes} bytes in all; ${where} …]\n${preview?.tail ?? ''}`
}
