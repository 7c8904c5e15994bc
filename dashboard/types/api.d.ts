/** What the JSON API answers. Times are ISO 8601 in UTC, durations are seconds. */
declare namespace Api {
	/** JSON in which an object with one `$` key stands for what JSON would lose. */
	type Tagged = null | boolean | number | string | Tagged[] | { [key: string]: Tagged };
	type Status = "pending" | "running" | "done" | "dead" | "cancelled";
	type Count = { value: number; is_exact: boolean };
	type Counts = Record<Status, Count>;
	type Rates = { enqueued: number; done: number; failed: number; dead: number };
	type FieldError = { path: string; message: string; at?: number; length?: number };

	type Session = {
		version: string;
		title: string;
		user: string | null;
		permissions: string[];
		now: string;
		panels: string[];
		features: Record<string, boolean>;
		is_loopback_default: boolean;
		csrf: { cookie: string; header: string } | null;
		oldest_due_warning_seconds: number;
		oldest_due_critical_seconds: number;
		live: { sse: boolean; poll_seconds: number };
		payload_search: boolean;
		qualifiers: { name: string; hint: string }[];
	};

	type Policy = {
		ttl_seconds: number | null;
		max_attempts: number | null;
		timeout_seconds: number | null;
		backoff: Tagged;
		weight: number;
		workers: number | null;
		lanes: number;
	};
	type Pause = { at: string; until: string | null; by: string | null };
	type Queue = {
		name: string;
		counts: Counts;
		backlog: Count;
		scheduled: Count;
		oldest_due_seconds: number | null;
		capacity: number;
		pause: Pause | null;
		rates: Rates;
		spark: { step_seconds: number; done: number[]; failed: number[] };
		nodes: number;
		policy: Policy;
		managed: { weights: number[]; workers: number[] };
		changed: string[];
	};
	type Overview = {
		at: string;
		queues: Queue[];
		totals: Counts & { backlog: Count; scheduled: Count; capacity: number; rates: Rates };
		nodes: {
			count: number;
			capacity: number;
			running: number;
			max_loop_lag_seconds: number;
			versions: string[];
		};
		health: {
			stream: { state: string; detail: string };
			janitor: { leader: string | null; until: string | null; state: string };
		};
	};

	type Latency = { p50: number; p95: number; p99: number; mean?: number; count?: number };
	type Point = {
		at: string;
		enqueued: number;
		done: number;
		failed: number;
		dead: number;
		wait: Latency | null;
		run: Latency | null;
	};
	type Metrics = {
		since: string;
		until: string;
		step_seconds: number;
		points: Point[];
		gauges: { at: string; backlog: number; running: number; oldest_due_seconds: number | null }[];
		total: { wait: Latency | null; run: Latency | null; end_to_end: Latency | null };
		deploys: { at: string; version: string }[];
		is_complete: boolean;
	};

	type AttemptError = {
		at: string;
		attempt: number;
		worker: string;
		kind: string;
		message: string;
		traceback?: string | null;
	};
	type Row = {
		id: string;
		queue: string;
		type: string;
		status: Status;
		priority: number;
		attempts: number;
		max_attempts: number;
		interruptions: number;
		run_at: string;
		due_at: string | null;
		created_at: string;
		updated_at: string;
		started_at: string | null;
		finished_at: string | null;
		expires_at: string | null;
		cancel_requested_at: string | null;
		unique_key: string | null;
		tags: string[];
		worker: string | null;
		lease_until: string | null;
		error: AttemptError | null;
		fingerprint: string | null;
	};
	type Moment = {
		at: string;
		what: string;
		attempt: number | null;
		worker: string | null;
		detail: string | null;
		is_future: boolean;
	};
	type Task = Row & {
		lane: number;
		timeout_seconds: number | null;
		backoff: Tagged;
		retry_until: string | null;
		errors: AttemptError[];
		errors_dropped: number;
		lease: { owner: string; until: string } | null;
		trace_id: string | null;
		trace_url: string | null;
		hidden: boolean;
		is_redacted: boolean;
		payload: Tagged;
		result: Tagged;
		has_result: boolean;
		progress: Tagged;
		metadata: Tagged;
		explanation: { reason: string; sentence: string; until: string | null; by: string | null };
		timeline: Moment[];
		can: string[];
		schema: boolean;
	};
	type TaskList = { tasks: Row[]; cursor: string | null; sort: string };
	type Completion = {
		from: number;
		to: number;
		items: { text: string; label: string; kind: string; detail?: string | null }[];
	};
	type Schema = { [key: string]: any };

	type TypeRow = {
		queue: string;
		type: string;
		enqueued: number;
		done: number;
		failed: number;
		dead: number;
		failure_rate: number | null;
		run: Latency | null;
		wait: Latency | null;
		nodes: number;
		schema: boolean;
	};
	type Bucket = { from_seconds: number; to_seconds: number; count: number };
	type Group = {
		queue: string;
		fingerprint: string;
		kind: string;
		message: string;
		count: Count;
		latest: Row;
		query: string;
	};
	type TypeDetail = Omit<TypeRow, "schema"> & {
		histogram: Bucket[];
		failures: Group[];
		others: Count;
		schema: Schema | null;
	};

	type Node = {
		id: string;
		host: string;
		pid: number;
		version: string;
		queues: string[];
		types: { queue: string; types: string[] }[];
		capacity: number;
		running: number;
		loop_lag_seconds: number;
		rss_bytes: number | null;
		started_at: string;
		beat_at: string;
		expires_at: string;
		order: null | "quiet" | "drain";
		query: string;
	};
	type System = {
		at: string;
		store: string;
		findings: { severity: string; check: string; message: string; remedy: string | null }[];
		collections: {
			name: string;
			documents: number;
			bytes: number;
			storage_bytes: number;
			index_bytes: number;
		}[];
		indexes: {
			collection: string;
			name: string;
			keys: [string, Tagged][];
			bytes: number | null;
			uses: number | null;
		}[];
		plans: { query: string; index: string | null; is_served: boolean }[];
		oplog: { window_seconds: number; used: number } | null;
		leaders: { duty: string; node: string; term: number; until: string }[];
	};
	type AuditEntry = {
		id: string;
		at: string;
		user: string | null;
		action: string;
		target: Tagged;
		details: Tagged;
		outcome: string;
		error: string | null;
		by: string | null;
		report: { changed: number; refused: number } | null;
		finished_at: string | null;
	};
	type Job = {
		id: string;
		action: string;
		query: string | null;
		ids: number | null;
		state: "running" | "done" | "stopped" | "failed" | "lost";
		is_stopping: boolean;
		total: Count | null;
		changed: number;
		refused: { id: string; message: string }[];
		refused_count: number;
		error: string | null;
		user: string | null;
		by: string | null;
		started_at: string;
		finished_at: string | null;
	};
	type Update = {
		at: string;
		changed: { everything: boolean; queues: string[]; ids: string[]; nodes: boolean };
		overview: Overview | null;
		jobs: Job[];
	};
}
