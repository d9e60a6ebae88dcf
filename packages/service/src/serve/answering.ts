import type { Brokers } from '../brokers/open-brokers.ts'
import { redisTaskRecords } from '../brokers/transports/redis/task-records.ts'
import type { ServiceSettings } from '../config/service-settings.ts'
import { type Answers, createAnswers } from '../reply/broker-replies.ts'
import { createNotices, type Notices } from '../reply/notices.ts'
import { replyFiles } from '../reply/reply-files.ts'
import { sentMessage } from '../reply/sent-message.ts'
import type { Artifacts } from '../storage/artifacts/artifact-records.ts'
import type { CallViews } from '../storage/call-views.ts'
import type { Database } from '../storage/databases/database.ts'
import { type OutboxPosts, outboxPosts } from '../storage/outbox/outbox-posts.ts'
import { createWriteBacks, type WriteBacks } from '../worker/execute/effects.ts'
import { createResultCache, type ResultCache } from '../worker/execute/result-cache.ts'

export interface AnsweringParts {
  readonly brokers: Brokers
  readonly database: Database
  readonly artifacts: Artifacts
  readonly views: CallViews
  readonly settings: Pick<ServiceSettings, 'artifactBytes' | 'brokers'>
  /** Whether calls of a tool may get an interim answer. */
  readonly mayBackground: (tool: string) => boolean
  readonly signal: AbortSignal
}

/** What goes out over brokers, and what is kept in Redis. */
export interface Answering {
  readonly posts: OutboxPosts
  readonly answers: Answers
  readonly notices: Notices
  readonly writeBacks: WriteBacks
  readonly cache: ResultCache | undefined
}

/** What has no outcome is in the queue, whatever it waits for. */
const unfinishedSql = 'select call_id from queue where call_id = any ($1::text[])'

export function createAnswering(parts: AnsweringParts): Answering {
  const { brokers, database, artifacts, views, settings, signal, mayBackground } = parts
  const posts = outboxPosts(database)
  const { codecs, publishers, redis } = brokers
  const tasks = redis === undefined || !publishers.has('redis') ? undefined : redisTaskRecords(redis)
  const { backgroundMs = 0 } = settings.brokers.redis ?? {}
  const { progressMs = 1_000 } = settings.brokers.kafka ?? {}
  const notices = createNotices({
    ...{ codecs, publishers, tasks, backgroundMs, progressMs, mayBackground, now: () => new Date() },
    async unfinished(callIds) {
      const rows = await database.query<{ call_id: string }>(unfinishedSql, [callIds])
      return rows.map(({ call_id }) => call_id)
    },
  })
  const answers = createAnswers({
    ...{ notices, tasks },
    ...{ codecs: brokers.codecs, publishers: brokers.publishers },
    ...{ answered: posts.answered, unanswered: posts.unanswered },
    outcomes: (callIds) => views.outcomes(callIds, signal),
    files: (outcome, tenant) => replyFiles(outcome, tenant, artifacts),
    now: () => new Date(),
  })
  const writeBacks = createWriteBacks({
    posts,
    encode: (address, sent) => sentMessage(brokers.codecs, address, sent),
    keepFile: ({ name, mimeType, content }, { callId, fence, call }, signal) =>
      artifacts.keep(
        content,
        {
          ...{ tenant: call.identity.tenant, principal: call.identity.principal, holder: { callId, fence } },
          ...{ name, mimeType },
        },
        { maxBytes: settings.artifactBytes, signal },
      ),
  })
  const cache = brokers.redis === undefined ? undefined : createResultCache({ redis: brokers.redis })
  return { posts, answers, notices, writeBacks, cache }
}
