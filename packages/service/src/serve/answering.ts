import type { ServiceSettings } from '../config/service-settings.ts'
import type { Database } from '../databases/database.ts'
import { createResultCache, type ResultCache } from '../execute/result-cache.ts'
import { createWriteBacks, type WriteBacks } from '../execute/write-backs.ts'
import type { Artifacts } from '../records/artifacts.ts'
import type { CallViews } from '../records/call-views.ts'
import { type OutboxPosts, outboxPosts } from '../records/outbox-posts.ts'
import { type Answers, createAnswers } from '../reply/answers.ts'
import type { Brokers } from './brokers/open.ts'
import { replyFiles } from './brokers/reply-files.ts'
import { sentMessage } from './brokers/sent-message.ts'

export interface AnsweringParts {
  readonly brokers: Brokers
  readonly database: Database
  readonly artifacts: Artifacts
  readonly views: CallViews
  readonly settings: Pick<ServiceSettings, 'artifactBytes'>
  readonly signal: AbortSignal
}

/** What goes out over brokers, and what is kept in Redis. */
export interface Answering {
  readonly posts: OutboxPosts
  readonly answers: Answers
  readonly writeBacks: WriteBacks
  readonly cache: ResultCache | undefined
}

export function createAnswering({ brokers, database, artifacts, views, settings, signal }: AnsweringParts): Answering {
  const posts = outboxPosts(database)
  const answers = createAnswers({
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
        { tenant: call.identity.tenant, holder: { callId, fence }, name, mimeType },
        { maxBytes: settings.artifactBytes, signal },
      ),
  })
  const cache = brokers.redis === undefined ? undefined : createResultCache({ redis: brokers.redis })
  return { posts, answers, writeBacks, cache }
}
