/* A server that costs as little as it can: one thread, epoll, fixed answers, a stamp for every request.
 *
 *     mock_server ANSWER STAMPS CAPACITY [busy]
 *
 * ANSWER   file with the parts of an answer, each "<size>\n<bytes>": one part is sent in one write.
 * STAMPS   file to map: int64 count, then CAPACITY int64 CLOCK_MONOTONIC ns, one per request, taken when the
 *          read that completed it returned. The reader may set the count back to 0 between two runs.
 * busy     poll without sleeping, so that a stamp is not late by the time that waking takes.
 *
 * A POST gets the answer; a GET gets the list of models. Prints its port; ends with its standard input.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MAX_FD = 65536, MAX_PARTS = 64, BUFFER = 65536, EVENTS = 512 };

static const char MODELS[] = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 42\r\n\r\n"
                             "{\"object\":\"list\",\"data\":[{\"id\":\"mock-1\"}]}";

struct part {
    char *data;
    size_t size;
};

struct connection {
    size_t held; /* bytes of requests that are not complete */
    char *buffer;
};

static struct part parts[MAX_PARTS];
static int part_count;
static struct connection *connections[MAX_FD];
static volatile int64_t *stamps;
static int64_t capacity;

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void read_parts(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        die(path);
    size_t size;
    while (part_count < MAX_PARTS && fscanf(file, "%zu", &size) == 1) {
        if (fgetc(file) != '\n')
            die("answer");
        struct part *part = &parts[part_count++];
        part->size = size;
        part->data = malloc(size);
        if (!part->data || fread(part->data, 1, size, file) != size)
            die("answer");
    }
    fclose(file);
}

static void map_stamps(const char *path)
{
    size_t size = 8 * (size_t)(capacity + 1);
    int fd = open(path, O_RDWR | O_CREAT, 0644);
    if (fd < 0 || ftruncate(fd, (off_t)size) < 0)
        die(path);
    stamps = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
    if (stamps == MAP_FAILED)
        die("mmap");
    close(fd);
}

/* The socket blocks here: a client that does not read holds everybody up, as it should in a benchmark. */
static int send_all(int fd, const char *data, size_t size)
{
    while (size) {
        ssize_t sent = send(fd, data, size, MSG_NOSIGNAL);
        if (sent < 0) {
            if (errno == EINTR)
                continue;
            return -1;
        }
        data += sent;
        size -= (size_t)sent;
    }
    return 0;
}

static int answer(int fd, const char *request, int64_t arrived)
{
    if (request[0] == 'G')
        return send_all(fd, MODELS, sizeof MODELS - 1);
    int64_t number = stamps[0];
    if (number < capacity)
        stamps[1 + number] = arrived;
    stamps[0] = number + 1;
    for (int i = 0; i < part_count; i++)
        if (send_all(fd, parts[i].data, parts[i].size) < 0)
            return -1;
    return 0;
}

/* Bytes of the first request in data, or 0 if it is not complete. */
static size_t request_size(const char *data, size_t size)
{
    const char *end = memmem(data, size, "\r\n\r\n", 4);
    if (!end)
        return 0;
    size_t total = (size_t)(end - data) + 4;
    for (const char *line = data; line < end;) {
        const char *next = memchr(line, '\n', (size_t)(end + 2 - line));
        if (!next)
            break;
        line = next + 1;
        if (line + 15 < end && strncasecmp(line, "content-length:", 15) == 0) {
            total += strtoul(line + 15, NULL, 10);
            break;
        }
    }
    return total <= size ? total : 0;
}

static void drop(int fd)
{
    free(connections[fd]->buffer);
    free(connections[fd]);
    connections[fd] = NULL;
    close(fd);
}

static void serve(int fd)
{
    struct connection *c = connections[fd];
    ssize_t got = recv(fd, c->buffer + c->held, BUFFER - c->held, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0) {
        drop(fd);
        return;
    }
    int64_t arrived = now_ns();
    c->held += (size_t)got;
    size_t start = 0, size;
    while (start < c->held && (size = request_size(c->buffer + start, c->held - start)) > 0) {
        if (answer(fd, c->buffer + start, arrived) < 0) {
            drop(fd);
            return;
        }
        start += size;
    }
    c->held -= start;
    if (c->held == BUFFER) {
        fprintf(stderr, "a request is larger than %d bytes\n", BUFFER);
        drop(fd);
        return;
    }
    memmove(c->buffer, c->buffer + start, c->held);
}

static void welcome(int poller, int listener)
{
    int fd, on = 1;
    while ((fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
        if (fd >= MAX_FD) {
            close(fd);
            continue;
        }
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        struct connection *c = connections[fd] = calloc(1, sizeof *c);
        if (!c || !(c->buffer = malloc(BUFFER)))
            die("malloc");
        struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
        if (epoll_ctl(poller, EPOLL_CTL_ADD, fd, &event) < 0)
            die("epoll_ctl");
    }
}

static int listen_anywhere(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, size) < 0 || listen(fd, 4096) < 0)
        die("listen");
    if (getsockname(fd, (struct sockaddr *)&address, &size) < 0)
        die("getsockname");
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    return fd;
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "usage: mock_server ANSWER STAMPS CAPACITY [busy]\n");
        return 2;
    }
    capacity = strtoll(argv[3], NULL, 10);
    int busy = argc > 4 && strcmp(argv[4], "busy") == 0;
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    read_parts(argv[1]);
    map_stamps(argv[2]);
    int listener = listen_anywhere(), poller = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event of_listener = {.events = EPOLLIN, .data.fd = listener};
    struct epoll_event of_input = {.events = EPOLLIN, .data.fd = STDIN_FILENO};
    epoll_ctl(poller, EPOLL_CTL_ADD, listener, &of_listener);
    if (epoll_ctl(poller, EPOLL_CTL_ADD, STDIN_FILENO, &of_input) < 0)
        die("standard input cannot be polled");
    struct epoll_event ready[EVENTS];
    for (;;) {
        int count = epoll_wait(poller, ready, EVENTS, busy ? 0 : -1);
        for (int i = 0; i < count; i++) {
            int fd = ready[i].data.fd;
            if (fd == listener)
                welcome(poller, listener);
            else if (fd == STDIN_FILENO)
                return 0;
            else
                serve(fd);
        }
    }
}
