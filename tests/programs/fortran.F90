! All-to-alls from Fortran, compiled three times: -DINTERFACE_MPIF (include 'mpif.h'), -DINTERFACE_MPI (use mpi),
! -DINTERFACE_F08 (use mpi_f08). Prints for each case the wrong elements and a checksum over all ranks.
#ifdef INTERFACE_F08
#define COMM_T type(MPI_Comm)
#define TYPE_T type(MPI_Datatype)
#define REQUEST_T type(MPI_Request)
#else
#define COMM_T integer
#define TYPE_T integer
#define REQUEST_T integer
#endif
program alltoalls
#if defined(INTERFACE_F08)
  use mpi_f08
#elif defined(INTERFACE_MPI)
  use mpi
#endif
  implicit none
#ifdef INTERFACE_MPIF
  include 'mpif.h'
#endif
  integer, parameter :: n = 6
  integer :: rank, ranks, ierror, p, i, errors
  integer, allocatable :: send(:), recv(:), counts(:), displs(:), byte_displs(:), zeros(:), ones(:)
  TYPE_T, allocatable :: types(:), from_bottom(:)
  integer, allocatable :: others(:)
  integer(kind=MPI_ADDRESS_KIND), allocatable :: wide_displs(:)
  COMM_T :: graph
  REQUEST_T :: request
  integer(kind=MPI_ADDRESS_KIND) :: address
#ifdef INTERFACE_F08
  type(MPI_Status) :: status
#else
  integer :: status(MPI_STATUS_SIZE)
#endif

  call MPI_Init(ierror)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierror)
  errors = 0
  allocate(send(n * ranks), recv(n * ranks), counts(ranks), displs(ranks), byte_displs(ranks), zeros(ranks), ones(ranks))
  allocate(types(ranks), from_bottom(ranks))
  do p = 1, ranks
    counts(p) = n
    displs(p) = n * (p - 1)
    byte_displs(p) = 4 * displs(p)
    zeros(p) = 0
    ones(p) = 1
    types(p) = MPI_INTEGER
  end do

  call fill()
  call MPI_Alltoall(send, n, MPI_INTEGER, recv, n, MPI_INTEGER, MPI_COMM_WORLD, ierror)
  call check('alltoall', ierror)

  call fill()
  recv = send
  call MPI_Alltoall(MPI_IN_PLACE, n, MPI_INTEGER, recv, n, MPI_INTEGER, MPI_COMM_WORLD, ierror)
  call check('alltoall in place', ierror)

  call fill()
  call MPI_Alltoallv(send, counts, displs, MPI_INTEGER, recv, counts, displs, MPI_INTEGER, MPI_COMM_WORLD, ierror)
  call check('alltoallv', ierror)

  call fill()
  call MPI_Alltoallw(send, counts, byte_displs, types, recv, counts, byte_displs, types, MPI_COMM_WORLD, ierror)
  call check('alltoallw', ierror)

  ! Absolute addresses: the send buffer is MPI_BOTTOM, each type holds where its block lies.
  do p = 1, ranks
    call MPI_Get_address(send(n * (p - 1) + 1), address, ierror)
    call MPI_Type_create_hindexed(1, (/ n /), (/ address /), MPI_INTEGER, from_bottom(p), ierror)
    call MPI_Type_commit(from_bottom(p), ierror)
  end do
  call fill()
  call MPI_Alltoallw(MPI_BOTTOM, ones, zeros, from_bottom, recv, counts, byte_displs, types, MPI_COMM_WORLD, ierror)
  call check('alltoallw from bottom', ierror)
  do p = 1, ranks
    call MPI_Type_free(from_bottom(p), ierror)
  end do

  call fill()
  call MPI_Ialltoall(send, n, MPI_INTEGER, recv, n, MPI_INTEGER, MPI_COMM_WORLD, request, ierror)
  call MPI_Wait(request, status, ierror)
  call check('ialltoall', ierror)

  call fill()
  call MPI_Ialltoallv(send, counts, displs, MPI_INTEGER, recv, counts, displs, MPI_INTEGER, MPI_COMM_WORLD, request, &
                      ierror)
  call MPI_Wait(request, status, ierror)
  call check('ialltoallv', ierror)

  call fill()
  call MPI_Ialltoallw(send, counts, byte_displs, types, recv, counts, byte_displs, types, MPI_COMM_WORLD, request, ierror)
  call MPI_Wait(request, status, ierror)
  call check('ialltoallw', ierror)

  ! Neighbours of each other, and of themselves, are all ranks.
  allocate(others(ranks), wide_displs(ranks))
  do p = 1, ranks
    others(p) = p - 1
    wide_displs(p) = byte_displs(p)
  end do
  call MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, ranks, others, ones, ranks, others, ones, MPI_INFO_NULL, .false., &
                                      graph, ierror)
  call fill()
  call MPI_Neighbor_alltoall(send, n, MPI_INTEGER, recv, n, MPI_INTEGER, graph, ierror)
  call check('neighbor alltoall', ierror)

  call fill()
  call MPI_Neighbor_alltoallw(send, counts, wide_displs, types, recv, counts, wide_displs, types, graph, ierror)
  call check('neighbor alltoallw', ierror)

  call fill()
  call MPI_Ineighbor_alltoallv(send, counts, displs, MPI_INTEGER, recv, counts, displs, MPI_INTEGER, graph, request, ierror)
  call MPI_Wait(request, status, ierror)
  call check('ineighbor alltoallv', ierror)
  call MPI_Comm_free(graph, ierror)
  deallocate(others, wide_displs)

  call MPI_Finalize(ierror)
  deallocate(send, recv, counts, displs, byte_displs, zeros, ones, types, from_bottom)
  if (errors /= 0) stop 1

contains

  integer function value_of(source, destination, i)
    integer, intent(in) :: source, destination, i
    value_of = (source * 1000 + destination) * 100 + i
  end function value_of

  subroutine fill()
    do p = 1, ranks
      do i = 1, n
        send(n * (p - 1) + i) = value_of(rank, p - 1, i)
      end do
    end do
    recv = -1
  end subroutine fill

  subroutine check(name, code)
    character(len=*), intent(in) :: name
    integer, intent(in) :: code
    integer :: wrong, total, failed
    integer(kind=8) :: mine, checksum
    wrong = 0
    mine = 0
    do p = 1, ranks
      do i = 1, n
        if (recv(n * (p - 1) + i) /= value_of(p - 1, rank, i)) wrong = wrong + 1
        mine = mine + int(recv(n * (p - 1) + i), 8) * (i + rank)
      end do
    end do
    if (code /= MPI_SUCCESS) wrong = wrong + 1
    call MPI_Allreduce(wrong, total, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, failed)
    call MPI_Allreduce(mine, checksum, 1, MPI_INTEGER8, MPI_SUM, MPI_COMM_WORLD, failed)
    if (rank == 0) print '(a,a,i0,a,i0)', name, ': wrong ', total, ', checksum ', checksum
    errors = errors + total
  end subroutine check

end program alltoalls
