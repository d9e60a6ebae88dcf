import { type ArtifactRef, ToolError } from '@gantry/contract'
import type { WriteBack, WrittenFile } from '@gantry/core'
import type { SentMessage } from '../../brokers/codecs/codec.ts'
import type { Artifacts } from '../../storage/artifacts/artifact-records.ts'
import { createBatch } from '../../storage/batch.ts'
import type { Claim, ReplyAddress } from '../../storage/calls/call-store.ts'
import type { OutboxPosts, PostedItem } from '../../storage/outbox/outbox-posts.ts'
import { patiently } from './inner-calls.ts'

export interface CallEffectsPorts {
  readonly posts: Pick<OutboxPosts, 'post'>
  /** The message as it goes to the gateway, as text that SQL can hold; undefined when there is no place for it there. */
  readonly encode: (address: ReplyAddress, sent: SentMessage) => Pick<PostedItem, 'target' | 'body'> | undefined
  /** Keeps a file of the attempt; durable when it resolves. */
  readonly keepFile: (file: WrittenFile, claim: Claim, signal: AbortSignal) => Promise<ArtifactRef>
}

export interface CallEffects {
  /**
   * Takes what the tool of a claimed call writes back. For a chain `entry` names the inner call in its journal, whose
   * messages are counted by themselves.
   */
  of(claim: Claim, entry?: string): WriteBack
}

/** Messages may be as large as results. */
const atOnce = 100

/**
 * Takes messages to the outbox while their tool runs, and files to the artifacts.
 *
 * A message is safe when it is in the outbox, under its number: a later attempt that sends as many messages sends none of
 * them twice, whatever it says in them. A call that did not come from a broker has nobody to send to, so its messages are
 * in its result alone. While the database is away they wait, as long as the call may last.
 */
export function createCallEffects({ posts, encode, keepFile }: CallEffectsPorts): CallEffects {
  const posting = createBatch<PostedItem, void>(
    async (items) => {
      await posts.post(items)
      return items.map(() => undefined)
    },
    { most: atOnce },
  )
  return {
    of(claim, entry) {
      const { callId, call } = claim
      const { reply, identity } = call
      const name = entry === undefined ? '' : `-${entry}`
      const sender = entry === undefined ? callId : `${callId}.${entry}`
      return {
        async send(message, number, signal) {
          if (reply === undefined) return
          const encoded = encode(reply, { callId: sender, number, message })
          if (encoded === undefined) return
          if (!isStorable(encoded.body)) throw new ToolError('OUTPUT_INVALID', 'The message cannot be stored.')
          const item = { callId, tenant: identity.tenant, kind: 'message', item: `send${name}-${number}` } as const
          await patiently(() => posting.add({ ...item, ...encoded }), signal)
        },
        keep: (file, signal) => keepFile(file, claim, signal),
      }
    },
  }
}

/** Keeps the files that tools write back as artifacts of their attempt. */
export function keepFiles(
  artifacts: Pick<Artifacts, 'keep'>,
  limits: { readonly artifactBytes: number },
): CallEffectsPorts['keepFile'] {
  return ({ name, mimeType, content }, { callId, fence, call }, signal) => {
    const { tenant, principal } = call.identity
    const about = { tenant, principal, holder: { callId, fence }, name, mimeType }
    return artifacts.keep(content, about, { maxBytes: limits.artifactBytes, signal })
  }
}

/** One text that SQL cannot hold would take all others of its batch with it. */
function isStorable(text: string): boolean {
  return text.isWellFormed() && !text.includes('\0')
}
