import { type ArtifactRef, ToolError } from '@gantry/contract'
import type { EffectSink, WrittenFile } from '@gantry/core'
import type { SentMessage } from '../../brokers/codecs/codec.ts'
import type { Artifacts } from '../../storage/artifacts/artifact-records.ts'
import { createBatch } from '../../storage/batch.ts'
import type { Claim, ReplyAddress } from '../../storage/calls/call-store.ts'
import type { OutboxPosts, PostedItem } from '../../storage/outbox/outbox.ts'
import { patiently } from './inner-calls.ts'

export interface CallEffectsPorts {
  readonly posts: Pick<OutboxPosts, 'post'>
  /** Encodes a message for the gateway, as text that SQL can hold; undefined when the gateway has no format for it. */
  readonly encode: (address: ReplyAddress, sent: SentMessage) => Pick<PostedItem, 'target' | 'body'> | undefined
  /** Stores a file of the attempt; durable when it resolves. */
  readonly keepFile: (file: WrittenFile, claim: Claim, signal: AbortSignal) => Promise<ArtifactRef>
}

export interface CallEffects {
  /**
   * Stores the effects of a claimed call. For a chain `entry` names the inner call in its journal, whose messages are
   * numbered separately.
   */
  of(claim: Claim, entry?: string): EffectSink
}

/** Limited because messages may be as large as results. */
const atOnce = 100

/**
 * Writes messages to the outbox while their tool runs, and files to the artifact store.
 * | A message is stored in the outbox under its number: a later attempt that sends as many messages sends none of them
 * twice, whatever their content. A call that did not come from a broker has no receiver, so its messages are only in
 * its result. While the database is unavailable they wait, as long as the call may last.
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

/** Stores the files of tools as artifacts of their attempt. */
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

/** One text that SQL cannot hold would fail its whole batch. */
function isStorable(text: string): boolean {
  return text.isWellFormed() && !text.includes('\0')
}
