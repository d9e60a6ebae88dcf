import type { Content, JsonObject } from '@gantry/contract'
import { bytesPart, type DraftResult, type Part, type PartAbout, valuePart } from './offload-part.ts'
import { markedText, type TakenOut } from './preview.ts'

/** The pieces of content for a model or a person. A text leaves its beginning and end; each leaves a link to its file. */
export function* contentParts(owner: DraftResult): Generator<Part> {
  const { content } = owner
  for (const [index, item] of content.entries()) {
    const about = { what: `Piece ${index + 1} of the content`, name: `content-${index + 1}`, owner }
    const link = (taken: TakenOut): void => {
      content[index] = linkTo(taken)
    }
    const preview = (taken: TakenOut): void => {
      content[index] = { type: 'text', text: markedText(taken) }
      // At the end, so that the others keep their places.
      if (taken.artifact !== undefined) content.push(linkTo(taken))
    }
    if (item.type === 'text') yield valuePart(item.text, { ...about, replace: preview })
    if (item.type === 'image' || item.type === 'audio') {
      yield bytesPart(item.data, item.mimeType, { ...about, replace: link })
    }
    if (item.type === 'resource') yield resourcePart(item.resource, { ...about, replace: link })
  }
}

function resourcePart(resource: Extract<Content, { type: 'resource' }>['resource'], about: PartAbout): Part {
  const { text, blob, mimeType } = resource
  const type = typeof mimeType === 'string' ? { mimeType } : {}
  if (typeof blob === 'string') return { ...bytesPart(blob, 'application/octet-stream', about), ...type }
  if (typeof text === 'string') return { ...valuePart(text, about), ...type }
  return valuePart(resource as JsonObject, about)
}

function linkTo({ artifact, mimeType, bytes }: TakenOut): Content {
  if (artifact === undefined) return { type: 'text', text: `[${mimeType} of ${bytes} bytes, which could not be kept]` }
  const link = { uri: `/v1/artifacts/${artifact.id}`, name: artifact.name, mimeType: artifact.mimeType, size: bytes }
  return { type: 'resource_link', ...link }
}
