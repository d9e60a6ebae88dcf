import { type Json, ToolError } from '@gantry/contract'
import type { Server } from '@modelcontextprotocol/server'
import type { McpSdk } from './sdk.ts'
import type { McpParts } from './server.ts'

const form = /^gantry:\/\/artifacts\/([A-Za-z0-9._:-]{1,200})$/

/** The resource URI of an artifact. */
export function artifactUri(id: string): string {
  return `gantry://artifacts/${id}`
}

/** The artifact id of a resource URI, or undefined. */
export function artifactIdOf(uri: string): string | undefined {
  return form.exec(uri)?.[1]
}

/** The largest artifact that is served as a resource; a larger one is read in ranges over HTTP. */
const mostBytes = 16 * 1_048_576
const textType = /^(?:text\/|application\/(?:[\w.+-]*\+)?(?:json|xml|yaml|javascript)\b)/i

/** Artifacts as resources. None is listed, because the result of the call that made it links to it. */
export function serveResources(sdk: McpSdk, server: Server, { host, identityOf }: McpParts): void {
  server.setRequestHandler('resources/list', () => ({ resources: [] }))
  server.setRequestHandler('resources/templates/list', () => ({
    resourceTemplates: [
      {
        name: 'artifact',
        title: 'A file that a call kept',
        uriTemplate: 'gantry://artifacts/{id}',
        description: 'As a resource_link in the result of a call names it.',
      },
    ],
  }))
  server.setRequestHandler('resources/read', async ({ params: { uri } }, ctx) => {
    const absent = (): Error => new sdk.ResourceNotFoundError(uri)
    const id = artifactIdOf(uri)
    if (id === undefined || host.artifact === undefined) throw absent()
    const { signal } = ctx.mcpReq
    const identity = identityOf(ctx)
    try {
      const { artifact, content } = await host.artifact(id, { start: 0, end: mostBytes + 1 }, identity, signal)
      const pieces: Uint8Array[] = []
      for await (const piece of content) pieces.push(piece)
      if (artifact.bytes > mostBytes) throw tooLarge(sdk, artifact.bytes)
      const bytes = Buffer.concat(pieces)
      const { mimeType } = artifact
      const isText = textType.test(mimeType)
      return {
        contents: [
          isText ? { uri, mimeType, text: bytes.toString('utf8') } : { uri, mimeType, blob: bytes.toString('base64') },
        ],
      }
    } catch (thrown) {
      if (ToolError.is(thrown)) throw absent()
      throw thrown
    }
  })
}

function tooLarge(sdk: McpSdk, bytes: number): Error {
  const data: Json = { bytes, mostBytes }
  return new sdk.ProtocolError(-32602, `The file has ${bytes} bytes; read it at /v1/artifacts, piece by piece.`, data)
}
