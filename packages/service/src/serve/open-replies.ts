import { redisTaskRecords } from '../brokers/transports/redis/publisher.ts'
import type { Snapshots } from '../config/snapshots.ts'
import { type BrokerReplies, createBrokerReplies, replyFilesOf } from '../reply/broker-replies.ts'
import { backgroundRule, createNotices, type Notices } from '../reply/notices.ts'
import { type CallNotifications, createWaiters, openCallNotifications, type Waiters } from '../reply/waiters.ts'
import { outcomeReader } from '../storage/call-views.ts'
import type { Storage } from './open-storage.ts'
import type { ServiceParts } from './start.ts'

/** The parts that deliver outcomes: waiters in this process, event streams, and replies over brokers. */
export interface Replies {
  readonly waiters: Waiters
  readonly notifications: CallNotifications
  readonly answers: BrokerReplies
  readonly notices: Notices
}

export async function openReplies(
  parts: ServiceParts,
  { database, artifacts, views, posts }: Storage,
  snapshots: Snapshots,
  signal: AbortSignal,
): Promise<Replies> {
  const { settings, brokers } = parts
  const { codecs, publishers, redis } = brokers
  const outcomes = outcomeReader(views, signal)
  const tasks = redis === undefined || !publishers.has('redis') ? undefined : redisTaskRecords(redis)
  const now = (): Date => new Date()
  const notices = createNotices({
    codecs,
    publishers,
    tasks,
    backgroundMs: settings.brokers.redis?.backgroundMs ?? 0,
    progressMs: settings.brokers.kafka?.progressMs ?? 1_000,
    mayBackground: backgroundRule(snapshots),
    unfinished: posts.unfinished,
    now,
  })
  const answers = createBrokerReplies({
    codecs,
    publishers,
    notices,
    tasks,
    answered: posts.answered,
    unanswered: posts.unanswered,
    outcomes,
    files: replyFilesOf(artifacts),
    now,
  })
  return { waiters: createWaiters(outcomes), notifications: await openCallNotifications(database), answers, notices }
}
